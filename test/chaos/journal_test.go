package chaos

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"berth/test/guarantees"
)

// journal follows the journal of the back end.
type journal struct {
	w    *world
	file *os.File

	mu      sync.Mutex
	rest    string // an unfinished line
	volumes map[string]*written
}

// written is what the writers of a volume have done.
type written struct {
	epoch  string // of the newest writer
	writer string
	acks   []string // the acknowledged records, as in the volume
}

// prepareBackEnd makes the directory with its binary, and its files for some volumes.
func (w *world) prepareBackEnd(volumes []string) error {
	dir := filepath.Join(w.dir, "backend")
	if err := os.MkdirAll(filepath.Join(dir, "locks"), 0o755); err != nil {
		return err
	}
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "chaos"), binary, 0o755); err != nil {
		return err
	}
	files := []string{"journal"}
	for _, v := range volumes {
		files = append(files, filepath.Join("locks", v))
	}
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o666); err != nil { // tasks do not run as root
			return err
		}
	}
	w.journal = &journal{w: w, volumes: map[string]*written{}}
	for _, v := range volumes {
		w.journal.volumes[v] = &written{}
	}
	w.journal.file, err = os.Open(filepath.Join(dir, "journal"))
	return err
}

// check reads what the writers have added, and reports two writers of one volume.
func (j *journal) check() {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := bufio.NewReader(j.file)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			j.rest += text
			return
		}
		words := strings.Fields(j.rest + text)
		j.rest = ""
		v := j.volumes[words[1]]
		switch {
		case words[0] == "second":
			j.w.violate(guarantees.ExclusiveWriter, "%s began while %s, epoch %s, is alive",
				words[1:], v.writer, v.epoch)
		case words[0] == "begin":
			v.epoch = words[2]
			v.writer = words[3]
		case words[2] != v.epoch || words[4] != v.writer:
			j.w.violate(guarantees.ExclusiveWriter, "%s appended after %s, epoch %s, had begun", words[1:], v.writer, v.epoch)
		default:
			v.acks = append(v.acks, strings.Join(words[2:], " "))
		}
	}
}

// acks returns the number of records of a volume.
func (j *journal) acks(volume string) int {
	j.check()
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.volumes[volume].acks)
}

// newest returns the writer that has begun last on a volume, and its epoch.
func (j *journal) newest(volume string) (writer, epoch string) {
	j.check()
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.volumes[volume]
	return v.writer, v.epoch
}

// ackedAfter returns the writer of the newest epoch of a volume, once that is another epoch than the given
// one and the writer has a record. Otherwise it returns "".
func (j *journal) ackedAfter(volume, epoch string) (writer string) {
	j.check()
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.volumes[volume]
	if v.epoch == epoch || len(v.acks) == 0 || !strings.HasPrefix(v.acks[len(v.acks)-1], v.epoch+" ") {
		return ""
	}
	return v.writer
}

// checkRecords compares the acknowledged records with those on the volumes. A volume may have one more of
// each writer, whose end came before the acknowledgement.
func (j *journal) checkRecords() {
	j.check()
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, v := range j.volumes {
		text, err := os.ReadFile(filepath.Join(j.w.shelf(), "vol", externalID(id), "files", "records"))
		if err != nil {
			j.w.violate(guarantees.LostRecord, "%s: %v", id, err)
			continue
		}
		found := strings.Split(strings.TrimSpace(string(text)), "\n")
		next := 0
		for _, record := range found {
			if next < len(v.acks) && record == v.acks[next] {
				next++
			}
		}
		if next < len(v.acks) {
			j.w.violate(guarantees.LostRecord, "%s: %q is acknowledged, record %d of %d", id, v.acks[next], next+1, len(v.acks))
		}
		j.w.note("volume %s: %d records acknowledged, %d on it, epoch %s", id, len(v.acks), len(found), v.epoch)
	}
}

// externalID is the ID of a volume at its plugin.
func externalID(volume string) string { return "shelf-" + volume }
