package csi

import "strings"

// plainBytes are the bytes of an ID that stay in a generated name.
const plainBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"

// VolumeName makes the name that CreateVolume is called with: readable, unique by the second ID, and within
// 128 bytes without control characters (CSI spec, CreateVolumeRequest.name). It is recorded before the first
// call.
func VolumeName(id, unique string) string {
	// 80 bytes and an ID with 36 are within the 128.
	readable := []byte(id[:min(len(id), 80)])
	for i, c := range readable {
		if strings.IndexByte(plainBytes, c) < 0 {
			readable[i] = '-'
		}
	}
	return string(readable) + "-" + unique
}
