package field

import (
	"net"
	"net/netip"
	"strconv"

	"berth/structs"
)

// SplitAddress splits an element of structs.Service.TaggedAddresses: an IP address, with the port of the
// service, or "host:port". port is the service's.
func SplitAddress(text string, port int) (host string, _ int, err error) {
	_, err = netip.ParseAddr(text)
	if err == nil {
		return text, port, nil
	}
	host, number, err := net.SplitHostPort(text)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil || host == "" || port < 1 || port > structs.MaxPort {
		return "", 0, structs.Invalidf("%q is neither an IP address nor \"host:port\"",
			structs.Cut(text, structs.MaxQuoted))
	}
	return host, port, nil
}
