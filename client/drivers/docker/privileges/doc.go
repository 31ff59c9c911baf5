// Package privileges decides which privileges over the machine a container has: its capabilities, its
// security options, and what a job may ask of a node at all. It starts no container.
package privileges
