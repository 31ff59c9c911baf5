package agent

import (
	"github.com/hashicorp/go-sockaddr"
)

// privateIP is the address that others most likely reach this host at; loopback where there is none.
func privateIP() string {
	ip, err := sockaddr.GetPrivateIP()
	if err != nil || ip == "" {
		return "127.0.0.1"
	}
	return ip
}
