// Package class has the rows of volume classes and the requests about them. A class has the values that many
// volumes share, and a volume copies them when it is created.
package class
