package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// device is the fence device of all machines. It switches a machine off and waits until it is.
type device struct {
	w     *world
	agent string // the program of the servers

	mu   sync.Mutex
	mode deviceMode
}

type deviceMode string

const (
	deviceWorks deviceMode = "works"
	deviceFails deviceMode = "fails"
	deviceHangs deviceMode = "hangs"
)

// Exit codes of the protocol of fence agents.
const (
	fenceOK  = 0
	fenceBad = 1
	fenceOff = 2
)

func (w *world) prepareDevice() error {
	w.device = &device{w: w, agent: filepath.Join(w.dir, "fence"), mode: deviceWorks}
	socket := w.device.agent + ".sock"
	script := fmt.Sprintf("#!/bin/sh\nexec %s fence %s\n", filepath.Join(w.dir, "backend", "chaos"), socket)
	if err := os.WriteFile(w.device.agent, []byte(script), 0o700); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go w.device.serve(conn)
		}
	}()
	return nil
}

// runFence is the program of the device: it hands its input to the world, and the answer is its exit code.
func runFence(args []string) int {
	conn, err := net.Dial("unix", args[0])
	if err != nil {
		fmt.Println(err)
		return fenceBad
	}
	order, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = fmt.Fprintf(conn, "%s\n.\n", order)
	}
	code := fenceBad
	if err == nil {
		_, err = fmt.Fscan(conn, &code)
	}
	if err != nil {
		fmt.Println(err)
	}
	return code
}

func (d *device) set(mode deviceMode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mode = mode
}

func (d *device) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	options := map[string]string{}
	for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != "."; {
		name, value, _ := strings.Cut(lines.Text(), "=")
		options[name] = value
	}
	code := d.run(conn, options["action"], options["plug"])
	d.w.note("the device runs %s for %s: %d", options["action"], options["plug"], code)
	_, _ = fmt.Fprintln(conn, code)
}

func (d *device) run(conn net.Conn, action, plug string) int {
	d.mu.Lock()
	mode := d.mode
	d.mu.Unlock()
	switch mode {
	case deviceFails:
		return fenceBad
	case deviceHangs:
		_, _ = conn.Read(make([]byte, 1)) // until the agent is killed
		return fenceBad
	}
	m, err := d.w.member(plug)
	if err != nil {
		return fenceBad
	}
	switch action {
	case "off":
		m.powerOff()
		go d.switchOn(m)
		return fenceOK
	case "status":
		if _, first := m.boot(); first == 0 {
			return fenceOff
		}
		return fenceOK
	}
	return fenceOK
}

// fencedFor is the time for which a machine stays off that the device has switched off.
const fencedFor = 8 * time.Second

// switchOn is the person who switches a machine on after the device has switched it off. A fault that
// lasts does so itself at its end.
func (d *device) switchOn(m *member) {
	time.Sleep(fencedFor)
	m.busy <- struct{}{}
	defer func() { <-m.busy }()
	if err := m.powerOn(); err != nil {
		d.w.violate(harness, "%s does not start: %v", m.name, err)
	}
}

// member returns the member with a name.
func (w *world) member(name string) (*member, error) {
	for _, m := range w.all {
		if m.name == name {
			return m, nil
		}
	}
	return nil, errors.New("no member " + name)
}
