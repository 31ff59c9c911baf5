// Package archtest checks the structure of the code: which package may import which, that each package has a
// purpose, that no file is too long, and that a statement does one thing.
package archtest
