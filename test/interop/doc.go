// Package interop tests berth with a client of another project: the public Go client of the dialect. It is a
// separate module, so that the client never becomes a dependency of the product.
package interop
