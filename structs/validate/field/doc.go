// Package field collects the faults of a value that comes from outside, each with the path of its field, and
// has the checks that many fields share: lengths, names, numbers, durations and the forms of texts. Faults is
// the list of lines that requests and files share, of bounded length.
//
// A fault shows at most the first bytes of a text from outside, and one error has a bounded number of faults.
// The package knows no job, volume or node: what their fields may be is in the packages above.
package field
