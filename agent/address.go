package agent

import (
	"cmp"

	"github.com/hashicorp/go-sockaddr"
)

// privateIP returns the address at which others most likely reach this host, or loopback if there is none.
func privateIP() string {
	ip, _ := sockaddr.GetPrivateIP() // "" with an error
	return cmp.Or(ip, "127.0.0.1")
}
