// Package archtest checks the structure of the code: which package may import which, that each package has a
// purpose, that no package, type, file, line and function is too large, that a statement does one thing,
// and that no product code decides by a text for people. The checks of files, lines and statements hold for
// tests and for the modules of their own, too.
package archtest
