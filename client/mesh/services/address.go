package services

import (
	"cmp"

	"berth/client/drivers/driver"
	"berth/structs"
)

// where says which address and port a service or a check has. The placeholders are replaced.
type where struct {
	mode string
	own  string // the address in the job, "" for none
	port string // a label, a number or ""
	task string // that has the service, "" for the group
}

// ofCheck returns the address and the port of a check of the service. As in the dialect, a check without a
// mode has the address in the job, or the node's.
func (w where) ofCheck(c *structs.ServiceCheck) where {
	w.mode = c.AddressMode
	if w.mode == "" && w.own == "" {
		w.mode = structs.AddressModeHost
	}
	return w
}

// address returns an address and a port, 0 for none.
func (s *Set) address(w where) (host string, port int, err error) {
	at := s.locationOf(w.task)
	switch w.mode {
	case structs.AddressModeAlloc:
		return s.allocAddress(w.port)
	case structs.AddressModeDriver:
		if at == nil {
			return "", 0, structs.Preconditionf("address_mode %q: the task is in no network of its driver",
				w.mode)
		}
		return s.portAt(at.Address, w.port)

	case structs.AddressModeHost:
		return s.hostAddress(w.port)
	}

	// Without a mode, the driver decides whether the service has its address.
	if w.own == "" && at != nil && at.Advertised {
		return s.portAt(at.Address, w.port)
	}

	// An address in the job wins. The port is the node's.
	host, port, err = s.hostAddress(w.port)
	return cmp.Or(w.own, host), port, err
}

// locationOf returns the place of a task that runs, nil without one.
func (s *Set) locationOf(task string) *driver.Location {
	t := s.running[task]
	if t == nil {
		return nil
	}
	return t.location
}

// hostAddress returns the address of a port of the node, or the node's own.
func (s *Set) hostAddress(label string) (host string, port int, err error) {
	p := s.portOf(label)
	if p != nil {
		return p.HostIP, p.Value, nil
	}

	// A port that is no label is a number, at the node's own address.
	addresses := s.Node().HostAddresses(structs.DefaultHostNetwork)
	if len(addresses) > 0 {
		host = addresses[0].Address
	}
	port, err = numberOf(label)
	return host, port, err
}

// allocAddress returns the address of the allocation in its own network, and the port there.
func (s *Set) allocAddress(label string) (host string, port int, err error) {
	status := s.Network()
	if status == nil || status.Address == "" {
		return "", 0, structs.Preconditionf("address_mode %q: the allocation has no address of its own",
			structs.AddressModeAlloc)
	}
	return s.portAt(status.Address, label)
}

// portAt returns an address in a network of the allocation or of a task, and the port there.
func (s *Set) portAt(address, label string) (host string, port int, err error) {
	p := s.portOf(label)
	if p != nil {
		return address, p.Inside(), nil
	}
	port, err = numberOf(label)
	return address, port, err
}

// portOf returns the port of the allocation with a label, nil if there is none.
func (s *Set) portOf(label string) *structs.AllocatedPort {
	return structs.FindPort(s.Alloc().Ports, label)
}

// numberOf returns the port with a number, 0 for "".
func numberOf(label string) (int, error) {
	if label == "" {
		return 0, nil
	}
	return structs.PortNumber(label)
}
