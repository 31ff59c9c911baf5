//go:build tools

// Package peer pins the peer's command line, which test/interop runs against berth.
package peer

import _ "github.com/hashicorp/nomad"
