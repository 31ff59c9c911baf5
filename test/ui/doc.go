// Package ui runs the page of a real agent in a real browser. It is a module of its own, so that the driver
// of the browser is no dependency of berth. `make test-all` runs it.
package ui
