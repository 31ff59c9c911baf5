// Package limits sets the limits of a container: its processor time, its memory and its processes. It decides
// on no other setting, and does not talk to a daemon.
package limits
