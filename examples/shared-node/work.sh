# Stands for a program of ligands: says what it has of its node, and from when to when, in nanoseconds.
begun=$(date +%s%N)
sleep "$1"
cat > "$TASKQ_RESULT" <<END
{"device": "${CUDA_VISIBLE_DEVICES:-}", "licences": ${TASKQ_RESOURCE_LICENCE:-0},
 "scratch": ${TASKQ_RESOURCE_SCRATCH:-0}, "begun": $begun, "ended": $(date +%s%N)}
END
