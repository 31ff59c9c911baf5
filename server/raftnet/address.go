package raftnet

import (
	"cmp"
	"net"

	"berth/structs"
)

// AdvertisedAddress resolves the address of this server for others.
func AdvertisedAddress(bound *net.TCPAddr, configured string) (*net.TCPAddr, error) {
	if configured != "" {
		return ResolveAddress("advertise.rpc", configured, bound.Port)
	}
	if bound.IP.IsUnspecified() {
		return nil, structs.Invalidf(
			"server: the RPC address %s is no address for others; set advertise.rpc", bound)
	}
	return bound, nil
}

// ResolveAddress resolves a setting with an address for others. A port of 0 stands for the one bound.
func ResolveAddress(setting, configured string, bound int) (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", configured)
	if err != nil {
		return nil, structs.Invalidf("server: %s: %w", setting, err)
	}
	addr.Port = cmp.Or(addr.Port, bound)
	return addr, nil
}
