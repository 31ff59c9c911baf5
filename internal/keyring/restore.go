package keyring

import (
	"net/http"
	"strings"

	"berth/structs"
)

// RestoreKeys say how the secrets of an archive are opened after a restore. The zero value stands for the
// key-encryption key of the servers alone.
type RestoreKeys struct {
	// File is the text of the file with the key-encryption key of the archive's cluster, "" for none.
	File structs.Secret
	// LoseSecrets has the archive restored although no server opens its secrets.
	LoseSecrets bool
}

// The headers of the request of a restore. No URL has a key, because logs have these.
const (
	keyFileHeader     = "X-Berth-Key-File"
	loseSecretsHeader = "X-Berth-Lose-Secrets"
)

// SetHeader adds the keys to the header of a request.
func (k RestoreKeys) SetHeader(h http.Header) {
	if k.File != "" {
		h.Set(keyFileHeader, strings.TrimSpace(string(k.File)))
	}
	if k.LoseSecrets {
		h.Set(loseSecretsHeader, "true")
	}
}

// RestoreKeysOf reads the result of SetHeader.
func RestoreKeysOf(h http.Header) RestoreKeys {
	return RestoreKeys{
		File:        structs.Secret(h.Get(keyFileHeader)),
		LoseSecrets: h.Get(loseSecretsHeader) == "true",
	}
}
