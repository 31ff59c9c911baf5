package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"berth/structs"
)

// powerSwitch is a fence agent in a directory: it says that it was asked, and that the machine is off once
// the file "dark" is there.
type powerSwitch struct{ dir string }

func (p powerSwitch) asked() string { return filepath.Join(p.dir, "asked") }

func (p powerSwitch) dark() string { return filepath.Join(p.dir, "dark") }

// newPowerSwitch writes the agent and gives a server a device for it.
func (a *agent) newPowerSwitch() powerSwitch {
	a.t.Helper()
	p := powerSwitch{a.t.TempDir()}
	script := fmt.Sprintf(`#!/bin/sh
while read -r line; do case $line in action=*) action=${line#action=} ;; esac; done
case $action in
monitor) exit 0 ;;
off) : >'%s' ;;
status) [ -e '%s' ] && exit 2 ;;
esac
exit 0
`, p.asked(), p.dark())
	program := filepath.Join(p.dir, "fence_switch")
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		a.t.Fatal(err)
	}
	config := "server {\n  fencing \"switch\" {\n    agent = %q\n    timeout = \"20s\"\n  }\n}\n"
	a.args = append(a.args, "-config", a.writeFile("fencing.hcl", fmt.Sprintf(config, program)))
	return p
}

// A machine is lost while its task writes. Its volume moves once the device proves that the machine is off,
// and not before.
func TestStory_LostNodeGivesItsVolumeUpByAProof(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	s := newAgent(t, "s0", "-server")
	p := s.newPowerSwitch()
	s.ready = (*agent).hasLeader
	s.start()
	nodes := map[string]*agent{}
	for _, name := range []string{"n0", "n1"} {
		n := newAgent(t, name, "-client", "-servers", fmt.Sprintf("127.0.0.1:%d", s.rpc)).allowRaw()
		n.start()
		id := s.nodeID(name)
		nodes[id] = n
		s.must("node", "fence", "-pin", "-address", "unix://"+s.operatorSocket(), id, "plug="+name)
	}
	s.must("job", "run", st.writePluginJob(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", 2)
	volume := readFile(t, st.writeVolume(s, "v", 300)) + "on_node_loss = \"fence\"\n"
	s.must("volume", "create", s.writeFile("v.hcl", volume))
	s.must("job", "run", s.writeJob(writerJob("db", "v")))
	first := s.awaitRunning("db", 1)[0]
	s.awaitMoreOutput(first.ID)

	lost := nodes[first.NodeID]
	lost.kill() // its task runs on and writes
	eventually(t, "the servers ask the device", func() error {
		_, err := os.Stat(p.asked())
		return err
	})
	claims, err := s.claims("v")
	held := err == nil && len(claims) > 0 && claims[0].AllocID == first.ID &&
		claims[0].State == structs.ClaimGranted
	if !held {
		t.Errorf("the claims before the proof: %+v, %v", claims, err)
	}
	lost.crash()
	err = os.Remove(filepath.Join(st.root, "vol", "shelf-v", "staged", lost.name)) // its mount is gone
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.dark(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job writes on the other node", func() error {
		for _, a := range s.awaitRunning("db", 1) {
			if a.NodeID != first.NodeID {
				return nil
			}
		}
		return errors.New("it is on the lost node")
	})
	s.must("job", "stop", "-purge", "db")
	s.awaitFree("v")
	s.must("volume", "delete", "v")
	s.must("job", "stop", "-purge", "shelf")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
