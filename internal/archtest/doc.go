// Package archtest holds the shape of the house as tests: which package may import which, that each says
// what it is for, and that no file outgrows its reader.
package archtest
