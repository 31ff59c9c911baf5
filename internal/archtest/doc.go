// Package archtest checks the structure of the code: which package may import which, that each package has a
// purpose, and that no file is too long.
package archtest
