// Package vector is a persistent vector of rows, and the numbers of its cells. A version of the vector never
// changes: a later version shares all nodes in which nothing has changed. It knows no keys and no types of
// rows, and it has no lock: one writer makes the versions, any number of readers has them.
package vector
