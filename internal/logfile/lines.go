package logfile

import (
	"bytes"
	"errors"
	"io"
)

// chunk is the number of bytes that one read asks for.
const chunk = 64 << 10

// LineSearch looks for the start of a number of lines, back from the end of a text. The text may be in
// several files: call Back for each, the last one first.
type LineSearch struct {
	Lines  int   // line ends that are still to be found
	Budget int64 // bytes that may still be read
}

// Back searches the first size bytes of a file. It returns the offset after the line end that it looked for,
// and done. Without that line end it returns 0, and done is false. When the budget is used up it returns the
// offset that it has reached, and done.
//
// To have the last n lines of a text, search without its last byte: that ends the last line or is in it.
func (s *LineSearch) Back(f io.ReaderAt, size int64) (offset int64, done bool, err error) {
	buf := make([]byte, min(chunk, max(size, 0)))
	for at := size; at > 0; {
		if s.Budget <= 0 {
			return at, true, nil
		}

		p := buf[:min(int64(len(buf)), at, s.Budget)]
		at -= int64(len(p))
		s.Budget -= int64(len(p))
		n, err := f.ReadAt(p, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}

		p = p[:n] // the file may have become shorter
		for {
			i := bytes.LastIndexByte(p, '\n')
			if i < 0 {
				break
			}

			s.Lines--
			if s.Lines <= 0 {
				return at + int64(i) + 1, true, nil
			}

			p = p[:i]
		}
	}
	return 0, false, nil
}
