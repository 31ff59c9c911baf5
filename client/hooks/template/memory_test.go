//go:build !race

package template

// mostTaken is the memory that a rendering takes at most, in bytes.
const mostTaken = 100 << 20
