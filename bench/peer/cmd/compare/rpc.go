package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/bench/peer/result"
)

// The ports of the two servers, on loopback.
const (
	peerHTTP, peerRPC, peerSerf    = 24646, 24647, 24648
	berthHTTP, berthRPCp, berthSrf = 24746, 24747, 24748
)

// The work of the RPC rows: the fleet at first, and its allocations and volumes.
const (
	fleet  = 1000
	grown  = 5000
	allocs = 5000
)

// process is a server with the program that loads it.
type process struct {
	cmd  *exec.Cmd
	load []string // program and the flags that every load has
	dir  string
	ops  map[string]op
	runs map[string]sample   // by flags and round
	once map[string]struct{} // set-up that is done
}

// op is one operation as the arguments of a load program.
type op struct {
	flags string
	undo  string // flags that take it back, so that it can be measured again
	times int    // in one round; its sample is of their medians. 0 is 1
}

// sample is the result of one load.
type sample struct{ rate, p99, cpu float64 }

// rpcRows start both servers. Each row's load is run on one and then the other.
func (b *bench) rpcRows() ([]row, func()) {
	dir, err := os.MkdirTemp("", "bench")
	check(err)
	b.peer = b.startPeer(dir)
	b.berth = b.startBerth(dir)
	setups := []string{"nodes", "volumes", "shared", "allocs"}
	const writing = "write claims and releases in turn, 1,600 volumes of 10,000, 64 clients"
	rows := slices.Concat(
		threeOf(writing, "claimcycle", setups...),
		threeOf("get one of 10,000 volumes, 16 clients", "get", setups...),
		threeOf("list 10,000 volumes, not claimed, 1 client", "list", setups...),
		threeOf("list 10,000 volumes, not claimed, over HTTP, 1 client", "http", setups...),
		threeOf("heartbeats of 1,000 nodes, 64 clients", "heartbeat", setups...),
		threeOf("node fingerprints, fleet of 5,000, 64 clients", "register", append(setups, "grow")...),
		threeOf("changed instances only, as berth's nodes send them", "update", append(setups, "grow")...),
		last(threeOf("read claims of one volume, from 2,000 to 5,000 of them, 16 clients", "claimread",
			append(setups, "readers")...)),
	)
	targets := map[string]float64{
		writing:           10,
		writing + ": p99": 10,
		"node fingerprints, fleet of 5,000, 64 clients":                      100,
		"changed instances only, as berth's nodes send them":                 100,
		"read claims of one volume, from 2,000 to 5,000 of them, 16 clients": 150,
	}
	for i := range rows {
		rows[i].Target = targets[rows[i].Name]
		if rows[i].Name == writing+": server CPU" {
			rows[i].Bound = 60
		}
	}
	return rows, b.stopBoth(dir)
}

// last marks rows that are measured after all others: on the peer they take minutes, run once, and are not
// undone.
func last(rows []row) []row {
	for i := range rows {
		rows[i].Phase = 1
		rows[i].PeerOnce = true
	}
	return rows
}

// listRows start both servers with 10 readers of each volume. The peer has them from a snapshot.
func (b *bench) listRows() ([]row, func()) {
	dir, err := os.MkdirTemp("", "bench")
	check(err)
	out, err := exec.Command(filepath.Join(b.bin, "peer-fill"), "-dir", filepath.Join(dir, "peer"), "-addr",
		addr(peerRPC)).CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	b.peer = b.startPeer(dir)
	b.berth = b.startBerth(dir)
	for _, setup := range []string{"nodes", "volumes", "allocs", "claims"} {
		_, err := b.berth.run(b.berth.ops[setup].flags)
		check(err)
	}
	check(errors.Join(claimed(peerHTTP), claimed(berthHTTP)))
	rows := slices.Concat(
		threeOf("list 10,000 volumes, 10 claims each, 1 client", "list"),
		threeOf("list 10,000 volumes, 10 claims each, over HTTP, 1 client", "http"),
	)
	for i := range rows {
		if strings.HasSuffix(rows[i].Name, ": server CPU") {
			rows[i].Target = 5
		}
	}
	return rows, b.stopBoth(dir)
}

// claimed is an error unless a server lists 10,000 volumes with 10 readers each.
func claimed(port int) error {
	resp, err := http.Get("http://" + addr(port) + "/v1/volumes?type=csi")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var volumes []struct{ CurrentReaders int }
	if err := json.NewDecoder(resp.Body).Decode(&volumes); err != nil {
		return err
	}
	readers := 0
	for _, v := range volumes {
		readers += v.CurrentReaders
	}
	if len(volumes) != 10000 || readers != 100000 {
		return fmt.Errorf("the server at port %d lists %d volumes with %d readers", port, len(volumes), readers)
	}
	return nil
}

// threeOf are an operation's rate, p99 and CPU.
func threeOf(name, op string, setups ...string) []row {
	setups = slices.Clone(setups)
	one := func(r result.Row, of func(sample) float64) row {
		return row{
			Row: r,
			Peer: func(b *bench) (float64, error) {
				return b.peer.number(b, op, of, setups)
			},
			Berth: func(b *bench) (float64, error) {
				return b.berth.number(b, op, of, setups)
			},
		}
	}
	return []row{
		one(result.Row{Name: name, Unit: "/s", Scale: 1, Inverse: true}, func(s sample) float64 { return s.rate }),
		one(result.Row{Name: name + ": p99", Unit: "ms", Scale: 1e3}, func(s sample) float64 { return s.p99 }),
		one(result.Row{Name: name + ": server CPU", Unit: "us", Scale: 1e6},
			func(s sample) float64 { return s.cpu }),
	}
}

func (b *bench) stopBoth(dir string) func() {
	return func() {
		b.peer.stop()
		b.berth.stop()
		_ = os.RemoveAll(dir)
	}
}

// peerConfig is the config of the peer's server. Only measured heartbeats are sent.
const peerConfig = `name = "bench"
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "ERROR"
disable_update_check = true
ports {
 http = %d
 rpc = %d
 serf = %d
}
server {
 enabled = true
 bootstrap_expect = 1
 min_heartbeat_ttl = "10h"
 heartbeat_grace = "10h"
}
advertise {
 http = "127.0.0.1"
 rpc = "127.0.0.1"
 serf = "127.0.0.1"
}
`

func (b *bench) startPeer(dir string) *process {
	config := fmt.Sprintf(peerConfig, filepath.Join(dir, "peer"), peerHTTP, peerRPC, peerSerf)
	p := start(dir, filepath.Join(b.bin, "peer-server"), "peer.hcl", config, peerHTTP)
	file := filepath.Join(dir, "peer-allocs.json")
	p.load = []string{filepath.Join(b.bin, "peer-load"), "-addr", addr(peerRPC), "-http", addr(peerHTTP),
		"-pids", strconv.Itoa(p.cmd.Process.Pid), "-allocfile", file}
	p.ops = map[string]op{
		"nodes":   {flags: fmt.Sprint("-op setup-nodes -c 16 -nodes ", fleet)},
		"volumes": {flags: "-op setup-vols -c 8"},
		"shared":  {flags: "-op setup-sharedvol"},
		"allocs":  {flags: fmt.Sprint("-op setup-allocs -allocs ", allocs)},
		"readers": {flags: "-op claimread -c 16 -dur 10m -max 2000"},
		"grow":    {flags: fmt.Sprint("-op setup-nodes -c 16 -off ", fleet, " -nodes ", grown)},
		"claimcycle": {flags: "-op claimcycle -c 64 -dur 5s -part 1600",
			undo: "-op relwrite -c 64 -dur 30s -max 1600"},
		"claimread": {flags: "-op claimread -c 16 -dur 10m -off 2000"},
		"register":  {flags: fmt.Sprint("-op reg -c 64 -dur 15s -max 600 -nodes ", grown)},
		"update":    {flags: fmt.Sprint("-op reg -c 64 -dur 15s -max 600 -nodes ", grown)},
		"get":       {flags: "-op volget -c 16 -dur 5s -max 10000 -vol rand"},
		"list":      {flags: "-op vollist -c 1 -dur 5s -max 40"},
		"http":      {flags: "-op http -c 1 -dur 5s -max 40 -vol /v1/volumes?type=csi"},
		"heartbeat": {flags: "-op hb -c 64 -dur 5s -max 30000"},
	}
	return p
}

// berthConfig returns the config of a server with its data in a folder. Only measured heartbeats are sent.
// Its metrics stay in memory, as the peer's do by default.
func berthConfig(data string) string {
	return fmt.Sprintf(`name = "bench"
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "error"
ports {
 http = %d
 rpc = %d
 serf = %d
}
server {
 enabled = true
 bootstrap_expect = 1
 heartbeat_ttl = "10h"
 heartbeat_grace = "10h"
 rpc_max_conns_per_client = 20000
}
telemetry {
 prometheus_metrics = false
}
`, data, berthHTTP, berthRPCp, berthSrf)
}

func (b *bench) startBerth(dir string) *process {
	p := start(dir, filepath.Join(b.bin, "berth"), "berth.hcl", berthConfig(filepath.Join(dir, "berth")),
		berthHTTP)
	file := filepath.Join(dir, "berth-allocs.json")
	p.load = []string{filepath.Join(b.bin, "berth-bench"), "-rpc", addr(berthRPCp), "-http", addr(berthHTTP),
		"-pid", strconv.Itoa(p.cmd.Process.Pid), "-file", file}
	p.ops = map[string]op{
		"nodes":      {flags: fmt.Sprint("-op nodes -c 16 -nodes ", fleet)},
		"volumes":    {flags: "-op volumes -c 8"},
		"shared":     {flags: "-op shared"},
		"allocs":     {flags: fmt.Sprint("-op allocs -allocs ", allocs)},
		"readers":    {flags: "-op claimread -c 16 -time 10m -max 2000"},
		"grow":       {flags: fmt.Sprint("-op nodes -c 16 -offset ", fleet, " -nodes ", grown)},
		"claims":     {flags: "-op claimeach -c 16"},
		"claimcycle": {flags: "-op claimcycle -c 64 -time 5s", undo: "-op release -c 64 -time 30s -max 1600"},
		"claimread": {flags: "-op claimread -c 16 -time 1m -offset 2000",
			undo: "-op releaseread -c 16 -time 1m -offset 2000", times: 3},
		"register":  {flags: fmt.Sprint("-op register -c 64 -time 15s -max 20000 -nodes ", grown)},
		"update":    {flags: fmt.Sprint("-op updatecsi -c 64 -time 15s -max 20000 -nodes ", grown)},
		"get":       {flags: "-op get -c 16 -time 5s -max 30000"},
		"list":      {flags: "-op list -c 1 -time 5s -max 40"},
		"http":      {flags: "-op http -c 1 -time 5s -max 40"},
		"heartbeat": {flags: "-op heartbeat -c 64 -time 5s -max 100000"},
	}
	return p
}

func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// start runs a server and waits until its HTTP port answers and it has had time to be elected.
func start(dir, program, file, config string, port int) *process {
	p := launch(dir, program, file, config)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr(port)); err == nil {
			_ = conn.Close()
			time.Sleep(3 * time.Second) // for the election
			return p
		}
	}
	p.stop()
	check(fmt.Errorf("%s did not come up: see %s.log", program, filepath.Join(dir, file)))
	return nil
}

// launch runs `program agent -config file`, behind the words of a command that runs another.
func launch(dir, program, file, config string, by ...string) *process {
	path := filepath.Join(dir, file)
	check(os.WriteFile(path, []byte(config), 0o600))
	log, err := os.Create(path + ".log")
	check(err)
	words := append(by, program, "agent", "-config", path)
	cmd := exec.CommandContext(context.Background(), words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = withMe()
	check(cmd.Start())
	check(log.Close())
	return &process{
		cmd:  cmd,
		dir:  dir,
		runs: map[string]sample{},
		once: map[string]struct{}{},
	}
}

// withMe has a process end with this one, however that ends.
func withMe() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// number runs an operation's load, once in each round, after the set-up that it needs.
func (p *process) number(b *bench, name string, of func(sample) float64, setups []string) (float64, error) {
	for _, s := range setups {
		if _, done := p.once[s]; done {
			continue
		}
		p.once[s] = struct{}{}
		if _, err := p.run(p.ops[s].flags); err != nil {
			return 0, fmt.Errorf("setting up %s: %w", s, err)
		}
	}
	o := p.ops[name]
	key := fmt.Sprint(o.flags, b.round)
	if _, done := p.runs[key]; !done {
		s, err := p.sample(o)
		if err != nil {
			return 0, err
		}
		p.runs[key] = s
	}
	return of(p.runs[key]), nil
}

func (p *process) sample(o op) (sample, error) {
	var rate, p99, cpu []float64
	for range max(1, o.times) {
		out, err := p.run(o.flags)
		if err != nil {
			return sample{}, err
		}
		fmt.Fprint(os.Stderr, out)
		s, err := parse(out)
		if err != nil {
			return sample{}, err
		}
		rate = append(rate, s.rate)
		p99 = append(p99, s.p99)
		cpu = append(cpu, s.cpu)
		if o.undo == "" {
			continue
		}
		if _, err := p.run(o.undo); err != nil {
			return sample{}, err
		}
	}
	return sample{
		result.Median(rate),
		result.Median(p99),
		result.Median(cpu),
	}, nil
}

// run runs the load program.
func (p *process) run(flags string) (string, error) {
	cmd := exec.Command(p.load[0],
		append(append([]string{}, p.load[1:]...), strings.Fields(flags)...)...)
	cmd.SysProcAttr = withMe()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

var (
	rateIn = regexp.MustCompile(`([0-9.]+) op/s|rate=([0-9.]+)`)
	p99In  = regexp.MustCompile(`p99=(\S+)`)
	errIn  = regexp.MustCompile(`(?:errs|errors)=([0-9]+)`)
	cpuIn  = regexp.MustCompile(`(?:srvcpu|cpu)=([0-9.]+)us`)
)

// parse reads the line of either load program.
func parse(out string) (s sample, err error) {
	rate := rateIn.FindStringSubmatch(out)
	p99 := p99In.FindStringSubmatch(out)
	cpu := cpuIn.FindStringSubmatch(out)
	if rate == nil || p99 == nil || cpu == nil {
		return s, fmt.Errorf("not understood: %q", out)
	}
	if failed := errIn.FindStringSubmatch(out); failed == nil || failed[1] != "0" {
		return s, fmt.Errorf("operations failed: %q", out)
	}
	var errs [3]error
	s.rate, errs[0] = strconv.ParseFloat(rate[1]+rate[2], 64)
	d, e := time.ParseDuration(p99[1])
	s.p99, errs[1] = d.Seconds(), e
	s.cpu, errs[2] = strconv.ParseFloat(cpu[1], 64)
	s.cpu *= 1e-6
	return s, errors.Join(errs[:]...)
}
