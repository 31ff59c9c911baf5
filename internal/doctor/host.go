package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
)

func checkConfiguration(_ context.Context, m *Machine) []Finding {
	switch {
	case m.Unconfigured:
		return one(Skip, "there is no configuration: the checks assume an agent that is server and node", "")
	case m.ConfigFault != nil:
		return one(Fail, fmt.Sprintf("the configuration is not valid: %v", m.ConfigFault),
			"correct it, and look at it with berth config validate; the checks below assume the defaults")
	}
	return one(OK, "the configuration is valid", "")
}

func checkUser(_ context.Context, m *Machine) []Finding {
	if m.euid != 0 && !m.Client && m.Agent != nil { // it has opened the operator socket
		return one(OK, "the user of the agent runs the checks", "")
	}
	if m.euid != 0 {
		return one(Warn, "this user is not root, so some checks see less than the agent",
			"sudo berth doctor")
	}
	return one(OK, "root runs the checks", "")
}

// programs are the programs that nodes start, with the features that need them.
var programs = []struct{ name, feature, debian string }{
	{"mkfs.ext4", "new volumes with ext4", "e2fsprogs"},
	{"iptables", "networks with mode bridge", "iptables"},
}

func checkPrograms(_ context.Context, m *Machine) []Finding {
	if !m.Client {
		return one(Skip, "servers alone start no such programs", "")
	}

	var lacks []Finding
	for _, p := range programs {
		if !m.find(p.name) {
			lacks = append(lacks, Finding{
				Result: Warn,
				Text:   fmt.Sprintf("the program %s, which %s need, is not installed", p.name, p.feature),
				Remedy: "install the package with it: " + p.debian + " in Debian",
			})
		}
	}
	if len(lacks) > 0 {
		return lacks
	}
	return one(OK, "mkfs.ext4 and iptables are installed", "")
}

// checkPorts opens each port. A port in use is the agent's own if an agent has answered.
func checkPorts(ctx context.Context, m *Machine) []Finding {
	var taken []Finding
	for _, p := range m.Ports {
		err := m.listen(ctx, p)
		switch {
		case err == nil:
		case errors.Is(err, unix.EADDRINUSE) && m.Agent != nil:
		case errors.Is(err, unix.EADDRINUSE) && m.euid != 0:
			taken = append(taken, Finding{
				Result: Skip,
				Text:   fmt.Sprintf("%s: %s %s is in use, perhaps by the agent", p.Setting, p.Network, p.Address),
				Remedy: "only root can ask the agent: sudo berth doctor",
			})
		case errors.Is(err, unix.EADDRINUSE):
			_, port, _ := net.SplitHostPort(p.Address) // listen has parsed it
			taken = append(taken, Finding{
				Result: Fail,
				Text:   fmt.Sprintf("%s: another program uses %s %s", p.Setting, p.Network, p.Address),
				Remedy: fmt.Sprintf("find it with ss -lnp 'sport = :%s', or set %s to another port", port, p.Setting),
			})
		default:
			taken = append(taken, Finding{
				Result: Fail,
				Text:   fmt.Sprintf("%s: %s %s cannot be opened: %v", p.Setting, p.Network, p.Address, err),
				Remedy: "set bind_addr to an address of this machine, and run this as root",
			})
		}
	}
	if len(taken) > 0 {
		return taken
	}
	if m.Agent != nil {
		return one(OK, "the agent that answers has its ports", "")
	}
	return one(OK, "the ports of the agent are free", "")
}

// checkAddress shows where other agents reach this one.
func checkAddress(_ context.Context, m *Machine) []Finding {
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		host = m.Address
	}
	ip := net.ParseIP(host)
	switch {
	case m.AddressFault != nil:
		return one(Fail, m.AddressFault.Error(), "set bind_addr, or advertise, to an address that others reach")
	case m.Address == "":
		return one(Skip, "the configuration has faults", "")
	case ip != nil && ip.IsLoopback():
		return one(OK, fmt.Sprintf("only this machine reaches the agent, at %s (%s)", m.Address, m.AddressWhy), "")
	}
	return one(OK, fmt.Sprintf("other agents reach this one at %s (%s)", m.Address, m.AddressWhy), "")
}

// tryPort opens a port and closes it.
func tryPort(ctx context.Context, p Port) error {
	var l net.ListenConfig
	if p.Network == "udp" {
		conn, err := l.ListenPacket(ctx, p.Network, p.Address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	ln, err := l.Listen(ctx, p.Network, p.Address)
	if err != nil {
		return err
	}
	return ln.Close()
}

// checkClock asks the kernel whether a program such as chrony keeps the clock right.
func checkClock(_ context.Context, m *Machine) []Finding {
	var t unix.Timex
	state, err := m.clock(&t)
	if err != nil {
		return one(Skip, fmt.Sprintf("the kernel does not tell the state of the clock: %v", err), "")
	}

	if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
		return one(Warn, "no program keeps the clock of this machine right: certificates, logins and schedules depend on it",
			"install chrony or systemd-timesyncd, and look at timedatectl")
	}
	return one(OK, "the clock is synchronized", "")
}

// The bounds of the free space of data_dir. Without space, servers stop and tasks fail.
const (
	leastFree  = 1 << 30
	littleFree = 5 << 30
	leastFiles = 1000
)

// checkDisk looks at the file system of the data directory, or of its nearest directory that exists.
func checkDisk(ctx context.Context, m *Machine) []Finding {
	dir := m.DataDir
	for dir != "/" && !isDir(dir) {
		dir = filepath.Dir(dir)
	}

	var st unix.Statfs_t
	err := m.usage(dir, &st)
	if err != nil {
		return one(Fail, fmt.Sprintf("data_dir: the file system of %s does not answer: %v", dir, err),
			"repair its disk, or set data_dir to another one")
	}

	free := st.Bavail * uint64(st.Bsize)
	uses := func() string { return files.DescribeDisk(ctx, m.DataDir) }
	text := fmt.Sprintf("data_dir: the file system of %s has %s free", dir, humanize.IBytes(free))
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		return one(Fail, fmt.Sprintf("data_dir: the file system of %s is read-only", dir),
			"look for errors of the disk in dmesg, and mount it again")
	case st.Files > 0 && st.Ffree < leastFiles:
		return one(Fail, fmt.Sprintf("data_dir: the file system of %s can take %d more files", dir, st.Ffree),
			"remove files: berth node gc -self removes ended allocations ("+uses()+")")
	case free < leastFree:
		return one(Fail, text, "free at least 1 GiB, of which a server needs 128 MiB for its log: "+
			"berth node gc -self removes ended allocations ("+uses()+")")
	case st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC:
		return one(Warn, fmt.Sprintf("data_dir: %s is in memory, so a reboot loses the state of the agent", dir),
			"set data_dir to a directory on a disk")
	case st.Type == unix.NFS_SUPER_MAGIC:
		return one(Warn, fmt.Sprintf("data_dir: %s is on another machine, whose loss stops the agent", dir),
			"set data_dir to a directory on a disk of this machine")
	case free < littleFree:
		return one(Warn, text, "free some: 5 GiB or more are usual")
	}
	return one(OK, text, "")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkFencing looks for the fence agents, their secrets and the watchdog.
func checkFencing(_ context.Context, m *Machine) []Finding {
	var faults []Finding
	add := func(text, remedy string) {
		faults = append(faults, Finding{Result: Fail, Text: text, Remedy: remedy})
	}

	for _, f := range m.Fences {
		if !m.find(f.Program) {
			add(fmt.Sprintf("fencing %q: the agent %s is not installed", f.Name, f.Program),
				"install it on each server: the package fence-agents has most of them")
		}
		for option, path := range f.SecretFiles {
			info, err := os.Stat(path)
			switch {
			case err != nil:
				add(fmt.Sprintf("fencing %q: secret_files: %s: %v", f.Name, option, err),
					"write the secret into the file, with mode 0600")
			case info.Mode().Perm()&0o077 != 0:
				add(fmt.Sprintf("fencing %q: secret_files: %s: others may read %s", f.Name, option, path),
					"chmod 600 "+path)
			}
		}
	}

	if m.Watchdog != "" && !isDevice(m.Watchdog) {
		add(fmt.Sprintf("client.fencing.watchdog: there is no device %s", m.Watchdog),
			"load the driver of the watchdog, or modprobe softdog")
	}
	if m.Agent != nil && len(m.Fences) > 0 {
		for _, w := range m.Agent.FenceWarnings {
			faults = append(faults, Finding{
				Result: Warn,
				Text:   fmt.Sprintf("node %s (%s): %s", w.Name, structs.ShortID(w.NodeID), w.Text),
				Remedy: fmt.Sprintf("say where its machine is: berth node fence -pin %s NAME=VALUE",
					structs.ShortID(w.NodeID)),
			})
		}
	}
	switch {
	case len(faults) > 0:
		return faults
	case len(m.Fences) == 0 && m.Watchdog == "":
		return one(Skip, "no fence device and no watchdog are configured: the volumes of a lost node wait for it, "+
			"or for berth node confirm-lost", "")
	}
	return one(OK, "the fence agents, their secrets and the watchdog are there; "+
		"berth node fence test NODE asks a device", "")
}

func isDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeDevice != 0
}
