package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"berth/internal/opsocket"
	"berth/structs"
)

// This file bounds the streams that an agent sends at a time: all of them, and each caller's, so that
// nobody locks out others. A token is a caller, and so is an address without one. rootCaller has slots of its
// own at the operator socket of its agent.

// HeaderStreamCaller tells the agent of a node for which caller a server forwards a request: the request has
// the address of the server, and may lack the token. An agent believes it of a server alone.
const HeaderStreamCaller = "X-Berth-Stream-Caller"

// callerName names the sender of streams, without a secret. rootCaller calls by the operator socket.
// unknownCaller is not bounded by itself: a server of a former version does not tell for whom it forwards.
type callerName string

// The callers without a token or an address.
const (
	unknownCaller callerName = ""
	rootCaller    callerName = "root"
)

// MaxOwnStreams bounds the streams of one caller among structs.MaxFileStreams of an agent.
const MaxOwnStreams = 128

// ipv6Net is the length of the prefix that one owner of IPv6 addresses usually has.
const ipv6Net = 64

// callerNameOf returns the caller of a request. token is its secret, which counts only where access control
// has verified it: without access control each request could have another one.
func callerNameOf(r *http.Request, token string) callerName {
	switch {
	case isFromServer(r):
		return callerName(r.Header.Get(HeaderStreamCaller))
	case opsocket.Marked(r.Context()):
		return rootCaller
	case token != "":
		digest := sha256.Sum256([]byte(token))
		return callerName("token " + hex.EncodeToString(digest[:]))
	}
	return callerName("address " + addressOf(r.RemoteAddr))
}

// addressOf returns the address of a remote end without its port, or the network of an IPv6 address. All
// callers at the sockets of a machine have one.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "socket"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, ipv6Net).Masked().String()
}

// streamSlots are an agent's slots. The methods may be called at the same time.
type streamSlots struct {
	all, own int

	mu    sync.Mutex
	taken int // without root's
	of    map[callerName]int
}

// newStreamSlots returns slots of which all callers may take so many, and each caller own.
func newStreamSlots(all, own int) *streamSlots {
	return &streamSlots{all: all, own: own, of: map[callerName]int{}}
}

// Take takes a slot for a caller. The caller has it until release, which is called once. An error is
// unavailable. That of the bound of one caller has the status 429: another agent may have a slot.
func (s *streamSlots) Take(c callerName) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case c != unknownCaller && s.of[c] >= s.own:
		err = structs.Unavailablef("this agent sends %d files, logs and streams of events to the caller, the most "+
			"for one; end one, or ask another agent; a token is a caller, and so is an address without one", s.own)
		return nil, StatusError{Err: err, Status: http.StatusTooManyRequests}
	case c != rootCaller && s.taken >= s.all:
		return nil, structs.Unavailablef("this agent sends %d files, logs and streams of events, its most; end one",
			s.all)
	}
	s.add(c, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(c, -1)
	}, nil
}

func (s *streamSlots) add(c callerName, n int) {
	s.of[c] += n
	if s.of[c] == 0 {
		delete(s.of, c) // callers come and go
	}
	if c != rootCaller {
		s.taken += n
	}
}
