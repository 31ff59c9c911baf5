//go:build race

package template

// The race detector drops pooled memory at random, so a program takes more.
const mostTaken = 700 << 20
