//go:build race

package plaintwin

const raced = true
