// Package peer measures the peer, Nomad v1.6.1, next to berth: see README.md.
package peer

import (
	_ "github.com/hashicorp/nomad/nomad"
	_ "github.com/hashicorp/nomad/nomad/mock"
	_ "github.com/hashicorp/nomad/nomad/state"
	_ "github.com/hashicorp/nomad/nomad/structs"
)
