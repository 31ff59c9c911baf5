package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The back end is a directory that all writers reach beside their volumes, as a storage sees its clients:
//
//	chaos          this binary
//	journal        what writers do, in the order of their doing it
//	locks/VOLUME   the lock of a writer as long as its process lives
//
// Lines of the journal, each a writer's:
//
//	begin VOLUME EPOCH WRITER          it writes now
//	ack VOLUME EPOCH SEQUENCE WRITER   its record is in the volume, after an fsync
//	second VOLUME WRITER               it found another one alive

// backEnd is where the tasks find the directory.
const backEnd = "/backend"

// dataDir is where they find their volume.
const dataDir = "/data"

// appendEach is the time between two records of a writer.
const appendEach = 200 * time.Millisecond

// runWriter writes to a volume until it is killed. Its arguments are the volume and the node.
func runWriter(args []string) int {
	volume := args[0]
	writer := args[1] + "/" + os.Getenv("BERTH_ALLOC_ID") + "/" + strconv.FormatInt(time.Now().UnixNano(), 36)
	err := write(volume, writer)
	fmt.Println("writer:", err)
	return 1
}

func write(volume, writer string) error {
	journal, err := os.OpenFile(filepath.Join(backEnd, "journal"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	tell := func(words ...any) error {
		_, err := io.WriteString(journal, fmt.Sprintln(words...)) // one call: lines do not mix
		return err
	}
	lock, err := os.OpenFile(filepath.Join(backEnd, "locks", volume), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(tell("second", volume, writer), err)
	}
	records, err := os.OpenFile(filepath.Join(dataDir, "records"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	epoch, err := nextEpoch(records)
	if err != nil {
		return err
	}
	if err := tell("begin", volume, epoch, writer); err != nil {
		return err
	}
	for sequence := 1; ; sequence++ {
		if _, err := io.WriteString(records, fmt.Sprintln(epoch, sequence, writer)); err != nil {
			return err
		}
		if err := records.Sync(); err != nil {
			return err
		}
		if err := tell("ack", volume, epoch, sequence, writer); err != nil {
			return err
		}
		time.Sleep(appendEach)
	}
}

// nextEpoch returns the epoch after that of the last record.
func nextEpoch(records *os.File) (int, error) {
	info, err := records.Stat()
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(info.Size(), 4096))
	if _, err := records.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(string(tail)), "\n")
	last, _, _ := strings.Cut(lines[len(lines)-1], " ")
	epoch, _ := strconv.Atoi(last) // 0 if there is none
	return epoch + 1, nil
}
