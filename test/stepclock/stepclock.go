// Package stepclock changes the wall clock of programs that were built with the overlay of
// scripts/stepped.sh. The clock of the machine stays as it is.
//
// Such a program maps the file Path when it starts, and adds the seconds in it to each time that time.Now
// returns. Its monotonic clock and CLOCK_BOOTTIME are those of the kernel, as after a step on a real machine.
package stepclock

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"time"
)

// Path is the file that a program maps.
const Path = "/run/wall-clock-step"

// Set writes the step to a file, in whole seconds. The programs that have mapped the file read it from then
// on.
func Set(file string, step time.Duration) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()

	seconds := int64(step / time.Second)
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(seconds)), 0)
	return err
}

// Of returns by how much the wall clock of a program differs from the one of this process, by the header of
// an answer that it has just given.
func Of(answer http.Header) (time.Duration, error) {
	date, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("the answer has no date: %w", err)
	}
	return time.Until(date).Round(time.Second), nil
}
