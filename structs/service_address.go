package structs

import (
	"net"
	"net/netip"
	"strconv"
)

// ServiceWeights are the weights of an instance in Consul's answers by DNS, while its checks pass and while
// one of them warns.
type ServiceWeights struct {
	Passing int
	Warning int
}

// SplitAddress splits an element of TaggedAddresses: an IP address, with the port of the service, or
// "host:port". port is the service's.
func SplitAddress(text string, port int) (host string, _ int, err error) {
	_, err = netip.ParseAddr(text)
	if err == nil {
		return text, port, nil
	}
	host, number, err := net.SplitHostPort(text)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil || host == "" || port < 1 || port > MaxPort {
		return "", 0, Invalidf("%q is neither an IP address nor \"host:port\"", Cut(text, MaxQuoted))
	}
	return host, port, nil
}
