//go:build tools

// Package consul pins the Consul agent that tests run.
package consul

import _ "github.com/hashicorp/consul"
