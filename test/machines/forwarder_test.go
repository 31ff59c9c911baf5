package machines

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// links are what the wires between the machines are like.
type links struct {
	delay time.Duration // of each frame
	loss  float64       // the share of the frames that is lost
	rate  int           // bytes a second to each machine; 0: as fast as can be
	// remembers has the forwarder keep a table of TCP flows, as a firewall or a NAT does: it drops in silence
	// what belongs to none.
	remembers bool
}

// forwarder carries the frames between the machines in place of a switch.
type forwarder struct {
	links
	mu      sync.Mutex
	random  *rand.Rand
	ports   map[string]*port   // by the names of the machines
	places  map[mac]*port      // where the senders are
	cut     map[[2]string]bool // pairs of machines, in both orders
	flows   map[flow]bool      // those that began since the last forget
	dropped int                // frames of other flows
}

type mac [6]byte

// flow has the addresses and ports of one direction.
type flow [12]byte

// port is the wire to a machine.
type port struct {
	machine string
	tap     *os.File
	out     chan frame
}

type frame struct {
	due  time.Time
	data []byte
}

// maxFrames is the most frames that wait for a machine. More of them are lost.
const maxFrames = 2000

func newForwarder(l links) *forwarder {
	return &forwarder{
		links:  l,
		random: rand.New(rand.NewPCG(1, 2)),
		ports:  map[string]*port{},
		places: map[mac]*port{},
		cut:    map[[2]string]bool{},
		flows:  map[flow]bool{},
	}
}

// connect makes the network card of a machine, in the namespace of the caller. The frames of it are carried
// until the process ends.
func (f *forwarder) connect(machine, card string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq(card)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	p := &port{machine: machine, tap: os.NewFile(uintptr(fd), card), out: make(chan frame, maxFrames)}
	f.mu.Lock()
	f.ports[machine] = p
	f.mu.Unlock()
	go f.receive(p)
	go f.send(p)
	return nil
}

// receive takes the frames of a machine.
func (f *forwarder) receive(p *port) {
	for {
		data := make([]byte, 1600)
		n, err := p.tap.Read(data)
		if err != nil {
			return
		}
		f.carry(p, data[:n])
	}
}

// send gives a machine its frames.
func (f *forwarder) send(p *port) {
	for next := range p.out {
		time.Sleep(time.Until(next.due))
		if f.rate > 0 {
			time.Sleep(time.Duration(len(next.data)) * time.Second / time.Duration(f.rate))
		}
		_, _ = p.tap.Write(next.data) // the card may be down
	}
}

// carry sends a frame to the machine that it is for, or to all others.
func (f *forwarder) carry(from *port, data []byte) {
	if len(data) < 14 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places[mac(data[6:12])] = from
	if f.remembers && !f.knows(data) {
		f.dropped++
		return
	}
	to := f.places[mac(data[:6])]
	for _, p := range f.ports {
		isLost := f.cut[[2]string{from.machine, p.machine}] || f.random.Float64() < f.loss
		if p == from || to != nil && to != p || isLost {
			continue
		}
		select {
		case p.out <- frame{time.Now().Add(f.delay), data}:
		default:
		}
	}
}

// knows reports whether a frame belongs to a known flow, or begins one. Frames of other protocols than TCP
// over IPv4 pass.
func (f *forwarder) knows(data []byte) bool {
	const (
		ipv4, withoutOptions, tcp = 0x0800, 0x45, 6
		syn, ack                  = 0x02, 0x10
	)
	if len(data) < 48 || binary.BigEndian.Uint16(data[12:]) != ipv4 ||
		data[14] != withoutOptions || data[23] != tcp {
		return true
	}
	there := flow(data[26:38])
	var back flow
	copy(back[0:], data[30:34])
	copy(back[4:], data[26:30])
	copy(back[8:], data[36:38])
	copy(back[10:], data[34:36])
	if data[47]&(syn|ack) == syn {
		f.flows[there] = true
		f.flows[back] = true
	}
	return f.flows[there]
}

// droppedFrames returns how many frames of forgotten flows were dropped.
func (f *forwarder) droppedFrames() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// forget drops all flows that there are, without a word to their ends.
func (f *forwarder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.flows)
}

// cutPair drops all frames between two machines.
func (f *forwarder) cutPair(a, b string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[[2]string{a, b}] = true
	f.cut[[2]string{b, a}] = true
}
