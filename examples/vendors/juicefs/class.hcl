# Directories of one file system of JuiceFS.
# The variable nomad/volumes/default/juicefs has the items name, metaurl, storage, bucket, access-key and secret-key.
name         = "juicefs"
description  = "Directories of one JuiceFS"
plugin_id    = "juicefs"
secrets_from = "nomad/volumes/{namespace}/juicefs"
