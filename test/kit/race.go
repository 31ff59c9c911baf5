//go:build race

package kit

const raced = true
