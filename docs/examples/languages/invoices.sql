-- What the examples of this folder work on: invoices of which each is to be billed once.
CREATE DATABASE example_languages;
CREATE TABLE example_languages.invoice (
    id     INT PRIMARY KEY,
    billed INT NOT NULL DEFAULT 0,
    token  BIGINT UNSIGNED NULL);
INSERT INTO example_languages.invoice (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10);
