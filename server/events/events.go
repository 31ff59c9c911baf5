// Package events keeps the newest events of one server for readers: package rows makes them, and package ring
// keeps them.
package events

import (
	"berth/server/events/ring"
	"berth/server/events/rows"
)

type (
	// Ring has the newest events of a server.
	Ring = ring.Ring
	// Settings bound its memory.
	Settings = ring.Settings
)

// DefaultSettings returns the settings of a server that does not name them.
func DefaultSettings() Settings { return ring.DefaultSettings() }

// New returns an empty ring for the events of all tables.
func New(s Settings) *Ring { return ring.New(s, rows.Maker{}) }
