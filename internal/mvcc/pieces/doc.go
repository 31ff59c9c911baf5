// Package pieces reads and writes the sequence of pieces that a snapshot file is. A piece is its length and
// that many bytes, which are one value or a chunk of rows. The package does not know which pieces a file has.
package pieces
