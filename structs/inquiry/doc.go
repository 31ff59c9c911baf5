// Package inquiry has the requests that change nothing and answer with more than rows: the dry run and the
// check of a job, the reasons for which a job or a volume waits, and searches.
package inquiry
