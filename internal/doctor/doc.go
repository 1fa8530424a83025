// Package doctor looks at everything that a configuration names: Redis, the
// database, files, listeners. It says in plain words what hurts, or may hurt
// later, and how to mend it.
//
// It promises to change nothing: it reads, and what it asks servers writes
// nothing. It tells no secret. What hangs is a finding: everything that is
// looked at has a time limit of its own. Whether authguard is running makes no
// difference.
package doctor
