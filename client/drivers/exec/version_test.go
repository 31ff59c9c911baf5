package exec_test

import (
	"fmt"
	"hash/crc32"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"
	"time"

	"berth/client/drivers/exec"
	"berth/internal/process"
	"berth/structs"
	"berth/test/kit"
)

// oldExecutorMain is a supervisor of an older version in the namespaces of a newer agent: it records pids
// that name other processes. It takes the record of the test.
func oldExecutorMain(dir string) {
	record, err := os.ReadFile(filepath.Join(dir, "../../record"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "task.json"), record, 0o600)
	}
	if err == nil {
		_, err = os.NewFile(4, "status").WriteString("{}\n")
	}
	fmt.Fprintln(os.Stderr, "waiting to be killed:", err)
	time.Sleep(patience)
	os.Exit(1)
}

func TestStart_RejectsAnOlderExecutable(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "true")
	bystander := osexec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.killAgent(bystander) })
	ref, err := process.RefOf(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.BootID()
	if err != nil {
		t.Fatal(err)
	}
	named := fmt.Sprintf(`{"PID":%d,"Start":%d}`, ref.PID, ref.Start)
	record := fmt.Sprintf(`{"TaskID":%q,"Boot":%q,"Supervisor":%s,"Task":%s`, cfg.ID, boot, named, named)
	if err := os.WriteFile(filepath.Join(r.dir, "record"), withSum(record), 0o600); err != nil {
		t.Fatal(err)
	}
	old := executorConfig(r.dir)
	old.Command = []string{kit.PlainProgram(), "old-executor"}
	d := exec.New(exec.DefaultConfig(), old)
	_, err = d.Start(r.ctx(), cfg)
	if !structs.IsKind(err, structs.KindPrecondition) || !contains(err.Error(), "restart the agent") {
		t.Errorf("got %v", err)
	}
	if state := ofProcess(t, ref.PID, "State"); contains("TtZX", state) {
		t.Errorf("the start has signalled another process: its state is %s", state)
	}
	r.checkClean(cfg)
}

// withSum ends the record of a task, an object that is still open, with its checksum.
func withSum(record string) []byte {
	sum := crc32.Checksum([]byte(record), crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(nil, `%s,"Sum":"%08x"}`, record, sum)
}
