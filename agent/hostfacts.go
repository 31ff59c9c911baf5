package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/client/machine"
	"berth/structs"
)

// maxFile bounds the bytes of a file in the description.
const maxFile = 64 << 10

// redacted stands for the value of a variable.
const redacted = "[redacted]"

// readHost describes the machine for experts, without secrets: of the environment of the agent it has the
// names alone. A file system that may not answer is left out.
func readHost(ctx context.Context) (*api.HostFacts, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	if err != nil {
		return nil, structs.Internalf("reading the name of the kernel: %w", err)
	}
	network, err := interfaces()
	if err != nil {
		return nil, structs.Internalf("reading the network interfaces: %w", err)
	}
	disks, err := machine.Disks(ctx)
	if err != nil {
		return nil, err
	}

	h := &api.HostFacts{
		OS: strings.Join([]string{text(name.Sysname[:]), text(name.Nodename[:]), text(name.Release[:]),
			text(name.Version[:]), text(name.Machine[:])}, " "),
		Network:     network,
		ResolvConf:  readFile("/etc/resolv.conf"),
		Hosts:       readFile("/etc/hosts"),
		Environment: environment(os.Environ()),
		Disk:        map[string]api.DiskUsage{},
	}
	for _, d := range disks {
		h.Disk[d.Mountpoint] = api.DiskUsage{DiskMB: int64(d.Size >> 20), UsedMB: int64(d.Used >> 20)}
	}
	return h, nil
}

// text returns the text of a field of the kernel, which ends with a zero.
func text(field []byte) string {
	before, _, _ := bytes.Cut(field, []byte{0})
	return string(before)
}

// interfaces returns the network interfaces with their addresses.
func interfaces() (all []map[string]string, err error) {
	found, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range found {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has gone since
		}
		var texts []string
		for _, a := range addrs {
			texts = append(texts, a.String())
		}
		all = append(all, map[string]string{
			"name":      i.Name,
			"flags":     i.Flags.String(),
			"mtu":       strconv.Itoa(i.MTU),
			"addresses": strings.Join(texts, ","),
		})
	}
	return all, nil
}

// environment returns the names of variables. A part of a value that looks like a name is none.
func environment(all []string) map[string]string {
	names := map[string]string{}
	for _, entry := range all {
		name, _, ok := strings.Cut(entry, "=")
		if ok && isName(name) {
			names[name] = redacted
		}
	}
	return names
}

// isName reports whether a text is the name of a variable, as shells take it.
func isName(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(b byte) bool {
		return b != '_' && (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z')
	})
}

// readFile returns the begin of a file, or the reason that there is none.
func readFile(path string) string {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
