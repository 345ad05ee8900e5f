# Which tests run where. The first line whose pattern matches the whole name counts; a test without a line
# stops the configuring.
#
# tier     test: `tools/test`, and all that follow. all: `tools/test --all`. long: `tools/test --long`.
# server   none. shared: the one that all of a build's tests use, beside each other, each in schemas of its own.
#          own: a new one for this test, which may change what is global. itself: the test starts what it needs
# again    what runs it once more: in --all servers (on MariaDB 11.8 and MySQL 9.7), asan, tsan; tools/coverage
# seconds  about how long it takes: the longest begin first (times places), and twenty times as long is the limit
# places   how many of the eight at work it counts for (ctest -j): most tests wait, and what only computes has what
#          the others leave (nice). One that wants many begins when so many are free at once: late, unless it is among
#          the first.
set(ROWLOCK_WHERE
  # test                                       tier server again                       seconds places
  "check_tidy                                 all  none   -                           45      2"
  "check_abi                                  all  none   -                           5       1"
  "check_shell                                test none   -                           30      1"
  "check_.*|compose                           test none   -                           5       1"
  "tools_checks                               test none   -                           10      1"
  "tools_server                               test itself -                           44      1"
  "demo                                       test itself -                           29      1"
  "package                                    long none   -                           150     2"
  "mutations                                  long itself -                           2400    2"

  "unit_(base|line)                           test none   asan,tsan,coverage          1       1"
  "unit_.*|fuzz_corpus_.*                     test none   asan,coverage               1       1"
  "fuzz                                       all  none   -                           90      2"
  "model                                      all  none   -                           100     1"

  # What a user meets, and the contract of the API.
  "conformance_bell                           test shared servers,asan,tsan,coverage  45      1"
  "conformance_losses                         test shared servers,asan,tsan,coverage  48      1"
  "conformance_(keeping|transaction)          test shared servers,asan,tsan,coverage  25      1"
  "conformance_fences                         test own    servers,asan,coverage       23      1"
  "conformance_server                         test shared servers,asan,coverage       23      1"
  "conformance_identity                       test own    asan,tsan,coverage          13      1"
  "conformance_fork                           test shared asan,coverage               11      1"
  "conformance_(acquire|connection|section|sets|totals) test shared servers,asan,tsan,coverage 9 1"
  # Its own: InnoDB's list of transactions is a copy that is not renewed while others read it all the time.
  "conformance_waiters                        test own    servers,asan,tsan,coverage  9       1"
  "conformance_roundtrips                     test itself servers,asan,tsan,coverage  5       1"
  "conformance_quorum                         test itself servers,asan,tsan,coverage  130     1"
  "conformance_sweep                          test own    servers,asan,coverage       20      1"
  "conformance_shared                         test shared servers,asan,tsan,coverage  13      1"
  "conformance_shared_many                    test shared servers,asan                20      2"
  "conformance_latch_many                     test own    servers                     8       2"
  "conformance_(latch|barrier|leader|once)    test shared servers,asan,tsan,coverage 10      1"
  "conformance_ask                            test shared servers,asan,tsan,coverage  50      1"
  "conformance_(queue|queue_tx)               test shared servers,asan,tsan,coverage 20      1"
  "conformance_.*                             test shared servers,asan,coverage       10      1"
  "race_(latch|barrier)_.*                    test shared servers,tsan                17      1"
  "race_(slots.*|lease_sets|freeze)           test shared servers,tsan                10      1"
  "race_ask                                   test shared servers,tsan                15      1"
  "race_.*                                    test shared servers,asan,tsan,coverage  4       1"
  "inside_statements                          test shared servers,asan                3       1"
  "inside_plans                               all  itself servers                     40      1"
  "inside_doctor                              test shared servers,asan,coverage       5       1"

  "sql_(event|read_only)                      test itself servers                     2       1"
  "sql_((latch|once|leader|queue)_)?contenders  test shared servers,asan                8       2"
  "sql_(fence|latch|slots)                    test shared servers                     18      1"
  "sql_queue                                  test shared servers                     5       1"
  "sql_.*                                     test shared servers                     4       1"

  "cli_run_outage                             test itself -                           40      1"
  "cli_run_death                              test shared -                           50      1"
  "cli_run.*                                  test shared asan                        25      1"
  "cli_waiters                                test shared asan,coverage               5       1"
  "cli_ask                                    test shared asan                        25      1"
  "cli_(connect|commands|locks|slots|latch|barrier|once|queue) test shared asan                    20      1"
  "cli_queue_work                             test shared asan                        40      1"
  "cli_(monitoring|freeze|top)                test shared servers,asan                16      1"
  "cli_restored                               test shared asan,coverage               12      1"
  "cli_bench                                  test shared asan                        12      2"
  "cli_leader                                 test itself asan                        80      1"
  "cli_quorum                                 test itself servers,asan,coverage       90      1"
  "cli_event                                  test itself servers,asan,coverage       40      1"
  "cli_doctor                                 test itself servers,asan,coverage       18      1"
  "cli_migrate                                test shared servers,asan,coverage       18      1"
  "cli_(fence|grants)                         test shared servers,asan,coverage       5       1"
  "cli_migrate_death                          all  shared -                           35      1"
  "docs                                       test own    -                           60      1"
  "docs_languages                             all  own    -                           40      1"
  "docs_systemd                               test shared -                           30      1"
  "docs_(jobs|recipes)                        test own    servers,asan                27      1"
  "consumer                                   test own    -                           10      1"

  "security_impostor                          test itself asan                        12      1"
  "security_via                               test shared servers,asan,tsan,coverage  11      1"
  "security_via_transaction                   all  shared -                           33      1"
  "security_via_acquire                       test shared servers                     9       1"
  "security_as_batch_transaction              all  shared -                           33      1"
  "security_as_all_sweep                      all  own    -                           25      1"
  "security_(as|via)_.*                       all  shared -                           10      1"
  "security_privileges                        test own    asan,coverage               60      1"
  "security_tls                               test itself -                           25      1"
  "security_privileges_mysql                  all  own    -                           66      1"
  "security_tls_.*                            all  itself -                           30      1"
  "security_secrets                           test itself servers                     20      1"
  "udf_.*                                     test itself servers                     15      1"

  # Everything that breaks.
  "faults_wire                                test shared asan,tsan,coverage          50      1"
  "faults_death                               test itself asan                        50      1"
  "faults_members                              all  itself servers,asan                35      1"
  "faults_migrate                             test shared servers,asan,tsan,coverage  10      1"
  "faults_stops                               test own    servers,asan,tsan           22      1"
  "faults_bell                                all  shared servers,tsan,coverage       40      1"
  "faults_shared                              all  shared servers,asan,tsan,coverage  80      1"
  "faults_leader                              all  shared servers,asan,tsan,coverage  5       1"
  "faults_gather                              all  shared servers,asan,tsan,coverage  10      1"
  "faults_asks                                all  shared servers,asan,tsan,coverage  40      1"
  "faults_queue_stopped                       all  shared servers,asan,tsan           60      1"
  "faults_queue_restarts                      all  itself servers,asan                60      1"
  "faults_stopped                             all  shared servers,asan,tsan           90      1"
  "faults_restarts                            all  itself servers,asan                60      1"
  "faults_once                                all  shared servers,asan,coverage       25      1"
  "faults_renewals                            all  own    servers                     20      1"
  "faults_queue                               all  shared servers,asan,coverage       30      1"
  "faults_runs                                all  itself asan                        90      2"
  "faults_runs_queue                          all  itself asan                        60      2"
  "faults_runs_quorum                         all  itself -                           90      2"
  # Broken libraries that few runs show: other tests notice the same with a fixed order of steps (tests/mutations/list).
  "faults_runs_(bell-(release|swap)|queue-done|reader-(closed|for-ever|look-first)|slot-line|once-state) long itself - 45 2"
  "faults_runs_((.*-)?for-ever|queue-(group|token|strand)|quorum_.*) all itself -              30      1"
  "faults_runs_.*                             all  itself -                           10      1"
  "faults_bytes                               all  shared -                           120     1"
  "faults_refusals                            all  own    coverage                    60      1"
  "faults_clocks                              all  shared -                           80      1"
  # It blocks the commits of a whole server.
  "faults_kills                               all  own    -                           50      1"
  "faults_slow                                all  shared -                           50      1"
  "inside_(alloc|calls)                       all  shared coverage                    80      2"
  "clusters_.*                                all  itself -                           80      4")

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
