// Package archtest checks the structure of the code: which package may import which, that each package has a
// purpose, that no file, line and product function is too large, and that a statement does one thing,
// and that no product code decides by a text for people. The checks of files, lines and statements hold for
// tests and for the modules of their own, too.
package archtest
