# A stand-in for a licensed program: the score is the number of characters, and a weight of the site.
test -n "$OE_LICENSE" || { echo "no licence" >&2; exit 69; }
read -r weight </library/weight
read -r unit </cvmfs/chem.example.org/unit
echo "{\"score\": $((${#1} * weight)), \"unit\": \"$unit\", \"bind\": \"$OMP_PROC_BIND\"}"
