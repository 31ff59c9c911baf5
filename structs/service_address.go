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

// insideModes are the modes of addresses and ports that are not the node's.
var insideModes = []string{AddressModeAlloc, AddressModeDriver}

// checkAddressMode checks the address mode of a service or of a check.
func (s *OwnedService) checkAddressMode(f fieldErrors, g *TaskGroup, mode string) {
	switch mode {
	case AddressModeAlloc:
		n := g.Network()
		f.require(n.Isolated() && n.Mode != NetworkModeNone,
			"address_mode %q: the allocations of the group have no addresses of their own; "+
				"give its network the mode %q", mode, NetworkModeBridge)
	case AddressModeDriver:
		f.require(s.Owner != "", "address_mode %q is for a service of a task: write the service in the task", mode)
	default:
		f.checkOneOf("address_mode", mode, append([]string{AddressModeAuto, AddressModeHost}, insideModes...))
	}
}

// maxWeight is the highest weight of a record in the domain name system.
const maxWeight = 65535

func (w *ServiceWeights) canonicalize() {
	if w == nil {
		return
	}
	for _, n := range []*int{&w.Passing, &w.Warning} {
		if *n <= 0 { // as in the dialect
			*n = 1
		}
	}
}

func (w *ServiceWeights) validate(f fieldErrors) {
	if w == nil {
		return
	}
	f.checkRange("passing", w.Passing, intRange{1, maxWeight, ""})
	f.checkRange("warning", w.Warning, intRange{1, maxWeight, ""})
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

// checkTaggedAddresses leaves texts with placeholders to the node.
func (f fieldErrors) checkTaggedAddresses(all map[string]string) {
	const name = "tagged_addresses"
	f.checkMeta(name, all)
	for tag, text := range all {
		f.require(HasPlaceholder(tag) || consulMetaForm().MatchString(tag),
			"%s: %q: expected 1 to 128 letters, digits, - and _", name, Cut(tag, MaxQuoted))
		if HasPlaceholder(text) {
			continue
		}
		_, _, err := SplitAddress(text, 0)
		f.require(err == nil, "%s: %v", name, err)
	}
}
