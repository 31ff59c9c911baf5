// Package protocol has the services of external plugins, as the dialect has them (ADR 26): their .proto
// files are our own text of its facts, and the code is made of them. A plugin of today relies on each name
// and number. It has their test alone: each service is a package of its own, as the compiler of the .proto
// files makes it.
package protocol

//go:generate ./generate.sh
