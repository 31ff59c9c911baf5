// Package filesystem makes, grows and freezes the file systems of images, with the programs of the machine.
// It does not mount them.
package filesystem
