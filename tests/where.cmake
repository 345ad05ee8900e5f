# Which tests run where. The first line whose pattern matches the whole name counts; a test without a line
# stops the configuring.
#
# tier     test: `tools/test`, and all that follow. all: `tools/test --all`. long: `tools/test --long`.
# server   none. shared: the one that all of a build's tests use, beside each other, each in schemas of its own.
#          own: a new one for this test, which may change what is global. itself: the test starts what it needs
# again    what runs it once more: in --all servers (on MariaDB 11.8 and MySQL 9.7), asan, tsan; tools/coverage
# seconds  about how long it takes: the longest begin first, and twenty times as long is the limit
# places   how many of the 26 (`--all`: 20) it takes (ctest -j): 13 are about a processor. Four for most, which wait more
#          than they compute; one or two for those that were measured to do next to nothing else; what only computes has
#          what the others leave (nice). One that wants many begins when so many are free at once: late, unless it is
#          among the first. `--all` has fewer, so that less is late there: its sanitizers and MySQL compute more.
#          On a slow machine those of up to four take one more (CMakeLists.txt).
set(ROWLOCK_WHERE
  # test                                       tier server again                       seconds places
  "check_tidy                                 all  none   -                           45      8"
  "check_abi                                  all  none   -                           5       4"
  "check_shell                                test none   -                           30      4"
  "check_.*|compose                           test none   -                           5       4"
  "tools_checks                               test none   -                           10      4"
  "tools_server                               test itself -                           30      4"
  "tools_flavours                             all  itself -                           30      4"
  "demo                                       test itself -                           29      4"
  "package                                    long none   -                           150     8"
  "mutations                                  long itself -                           2400    8"

  "unit_(base|line)                           test none   asan,tsan,coverage          1       4"
  "unit_.*|fuzz_corpus_.*                     test none   asan,coverage               1       4"
  "fuzz                                       all  none   -                           90      8"
  "model                                      all  none   -                           50      4"

  # What a user meets, and the contract of the API.
  "conformance_bell                           test shared servers,asan,tsan,coverage  45      1"
  "conformance_losses                         test shared asan,tsan,coverage          48      2"
  "conformance_(keeping|transaction)          test shared servers,asan,tsan,coverage  25      1"
  "conformance_fences                         test own    servers,asan,coverage       23      2"
  "conformance_server                         test shared servers,asan,coverage       23      2"
  "conformance_identity                       test own    asan,tsan,coverage          13      4"
  "conformance_fork                           test shared asan,coverage               11      4"
  "conformance_(acquire|connection|section|sets|totals) test shared servers,asan,tsan,coverage 9 4"
  # Its own: InnoDB's list of transactions is a copy that is not renewed while others read it all the time.
  "conformance_waiters                        test own    servers,asan,tsan,coverage  9       4"
  "conformance_roundtrips                     test itself servers,asan,tsan,coverage  5       4"
  "conformance_quorum(_members)?              test itself servers,asan,tsan,coverage  70      3"
  "conformance_sweep                          test own    servers,asan,coverage       20      4"
  "conformance_shared                         test shared servers,asan,tsan,coverage  13      4"
  "conformance_shared_many                    test shared servers                     20      8"
  "conformance_latch_many                     test own    servers                     8       8"
  "conformance_(latch|barrier|leader|once)    test shared servers,asan,tsan,coverage 10      4"
  "conformance_ask                            test shared servers,asan,tsan,coverage  50      1"
  "conformance_(queue|queue_tx)               test shared servers,asan,tsan,coverage 20      4"
  "conformance_.*                             test shared servers,asan,coverage       10      4"
  "race_(latch|barrier)_.*                    test shared servers,tsan                17      4"
  "race_(slots.*|lease_sets|freeze)           test shared servers,tsan                10      4"
  "race_ask                                   test shared servers,tsan                15      4"
  "race_.*                                    test shared servers,asan,tsan,coverage  4       4"
  "inside_statements                          test shared servers,asan                3       4"
  "inside_plans                               all  itself servers                     40      4"
  "inside_doctor                              test shared servers,asan,coverage       5       4"

  "sql_(event|read_only|rolled_back)         test itself servers                     2       4"
  "sql_((latch|once|leader|queue)_)?contenders  test shared servers                     8       8"
  "sql_(fence|latch|slots)                    test shared servers                     18      2"
  "sql_queue                                  test shared servers                     5       4"
  "sql_.*                                     test shared servers                     4       4"

  "cli_run_outage                             test itself -                           40      3"
  "cli_run_death                              test shared -                           50      3"
  "cli_run.*                                  test shared asan                        25      4"
  "cli_waiters                                test shared asan,coverage               5       4"
  "cli_ask                                    test shared asan                        25      4"
  "cli_(connect|commands|locks|slots|latch|barrier|once|queue) test shared asan                    20      4"
  "cli_queue_work                             test shared asan                        40      4"
  "cli_(monitoring|freeze|top)                test shared servers,asan                16      4"
  "cli_restored                               test shared asan,coverage               12      4"
  "cli_bench                                  test shared -                           12      8"
  "cli_leader                                 test itself asan                        80      4"
  "cli_quorum                                 test itself asan,coverage               90      4"
  "cli_event                                  test itself servers,asan,coverage       40      4"
  "cli_doctor                                 test itself servers,asan,coverage       18      4"
  "cli_migrate                                test shared servers,asan,coverage       18      4"
  "cli_(fence|grants)                         test shared servers,asan,coverage       5       4"
  "cli_migrate_death                          all  shared -                           35      4"
  "docs                                       test own    -                           60      4"
  "docs_languages                             all  own    -                           40      4"
  "docs_systemd                               test shared -                           30      4"
  "docs_(jobs|recipes)                        test own    servers                     27      4"
  "consumer                                   test own    -                           10      4"

  "security_impostor                          test itself asan                        12      4"
  "security_via                               test shared servers,asan,tsan,coverage  11      4"
  "security_via_transaction                   all  shared -                           33      2"
  "security_via_acquire                       test shared servers                     9       4"
  "security_as_batch_transaction              all  shared -                           33      2"
  "security_as_all_sweep                      all  own    -                           25      4"
  "security_(as|via)_.*                       all  shared -                           10      4"
  "security_privileges                        test own    coverage                    60      4"
  "security_tls                               test itself -                           25      4"
  "security_privileges_mysql                  all  own    -                           66      4"
  "security_tls_.*                            all  itself -                           30      4"
  "security_secrets                           test itself servers                     20      4"
  "udf_.*                                     test itself servers                     15      4"

  # Everything that breaks.
  "faults_wire                                test shared asan,tsan,coverage          50      1"
  "faults_death                               test itself asan                        50      2"
  "faults_members                              all  itself servers,asan                35      3"
  "faults_migrate                             test shared servers,asan,tsan,coverage  10      4"
  "faults_stops                               test own    servers,asan,tsan           22      2"
  "faults_bell                                all  shared servers,tsan,coverage       40      1"
  "faults_shared                              all  shared servers,asan,coverage       80      1"
  "faults_leader                              all  shared servers,asan,tsan,coverage  5       4"
  "faults_gather                              all  shared servers,asan,tsan,coverage  10      4"
  "faults_asks                                all  shared servers,asan,tsan,coverage  40      1"
  "faults_queue_stopped                       all  shared servers,asan,tsan           60      4"
  "faults_queue_restarts                      all  itself asan                        120     4"
  "faults_stopped                             all  shared servers,asan,tsan           40      1"
  "faults_restarts                            all  itself servers,asan                60      4"
  "faults_once                                all  shared servers,asan,coverage       25      4"
  "faults_renewals                            all  own    servers                     20      2"
  "faults_queue                               all  shared servers,asan,coverage       50      4"
  "faults_runs                                all  itself asan                        90      8"
  "faults_runs_queue                          all  itself asan                        60      8"
  "faults_runs_quorum                         all  itself -                           90      8"
  # Broken libraries: the checker must notice each. One for each kind of lock here; the others in --long.
  "faults_runs_(version|row|reader-look|slot-free|leader-late|once-done|latch-down|barrier-drop) all itself - 10 2"
  "faults_runs_queue-token|faults_runs_quorum_majority  all itself -                20      2"
  "faults_runs_(bell-release|queue-done)      long itself -                           45      8"
  "faults_runs_.*                             long itself -                           20      2"
  "faults_bytes                               all  shared -                           95      1"
  "faults_refusals                            all  own    coverage                    60      1"
  "faults_clocks                              all  shared -                           80      2"
  # It blocks the commits of a whole server.
  "faults_kills                               all  own    -                           50      2"
  "faults_slow                                all  shared -                           50      1"
  "inside_(alloc|calls)                       all  shared coverage                    80      6"
  "clusters_.*                                all  itself -                           80      8")

# where(NAME): the columns of its line, in where_tier, where_server, ... of the caller.
function(rowlock_where name)
  foreach(line ${ROWLOCK_WHERE})
    separate_arguments(columns UNIX_COMMAND "${line}")
    list(GET columns 0 pattern)
    if(name MATCHES "^(${pattern})$")
      foreach(column tier server again seconds places)
        list(POP_FRONT columns)
        list(GET columns 0 value)
        set(where_${column} "${value}" PARENT_SCOPE)
      endforeach()
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "tests/where.cmake has no line for the test ${name}")
endfunction()
