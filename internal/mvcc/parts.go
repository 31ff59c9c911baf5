package mvcc

import "strings"

// appendPart appends a part to a key. It escapes NUL and 0x01 by 0x01, and ends the part by NUL.
func appendPart(key []byte, part string) []byte {
	if strings.IndexByte(part, 0) < 0 && strings.IndexByte(part, 1) < 0 { // nearly always
		key = append(key, part...)
		return append(key, 0)
	}
	for i := range len(part) {
		if part[i] <= 1 {
			key = append(key, 1, part[i]+1)
			continue
		}
		key = append(key, part[i])
	}
	return append(key, 0)
}

// splitParts returns the parts of a key.
func splitParts(key []byte) []string {
	parts := strings.Split(string(key), "\x00")
	parts = parts[:len(parts)-1] // each part ends with NUL
	for i, p := range parts {
		if strings.IndexByte(p, 1) >= 0 {
			parts[i] = unescape(p)
		}
	}
	return parts
}

func unescape(part string) string {
	out := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		b := part[i]
		if b == 1 {
			i++
			b = part[i] - 1
		}
		out = append(out, b)
	}
	return string(out)
}
