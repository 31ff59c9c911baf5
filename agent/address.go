package agent

import (
	"github.com/hashicorp/go-sockaddr"
)

// privateIP returns the address at which others most likely reach this host, or loopback if there is none.
func privateIP() string {
	ip, err := sockaddr.GetPrivateIP()
	if err != nil || ip == "" {
		return "127.0.0.1"
	}
	return ip
}
